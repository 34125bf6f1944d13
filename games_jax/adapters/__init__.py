"""Games of other libraries behind our contract. Each module needs its library; import the one you want."""
