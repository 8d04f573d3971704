"""Pure: what was used lately, who is limited to how much, and for how long whoever used more has to wait."""
