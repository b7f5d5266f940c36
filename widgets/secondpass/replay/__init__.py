"""Forward lines and backward calls as frames, from hooks that see the real gradients."""
