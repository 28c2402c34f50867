"""One module for each Flight verb that moves rows or describes them."""
