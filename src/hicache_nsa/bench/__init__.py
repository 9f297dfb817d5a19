"""What ``hicache bench`` measures: copies, alone and beside a model, with every byte verified."""
