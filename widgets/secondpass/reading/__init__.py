"""What stands there now: grad_fn and saved tensors, read without side effects, as plain records."""
