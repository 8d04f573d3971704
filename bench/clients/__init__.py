"""What the client processes do, one file for each way of using a broker."""
