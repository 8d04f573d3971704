"""A shop: orders by category, and who has paid."""
