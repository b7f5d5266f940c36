"""Why a call failed, from what was heard: facts, then words and advice."""
