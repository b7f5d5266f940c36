"""What happens: which line ran, which operation made a Node, which call ran backward."""
