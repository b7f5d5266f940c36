"""The course's own widgets: questions, exercises and the playground."""
