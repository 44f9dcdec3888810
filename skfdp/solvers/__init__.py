"""Ways to fit: which sums are released, and what is made of them."""
