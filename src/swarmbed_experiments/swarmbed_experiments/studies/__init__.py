"""Studies: each makes a paper's figures from nothing, and puts our numbers beside the paper's."""
