"""Facts of MPIs: families, binary interfaces, and the transports that they can be made to take."""
