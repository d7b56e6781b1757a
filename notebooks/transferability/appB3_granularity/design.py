"""What Appendix B.3 compares: our kinds of targets, and which of the paper's are which."""

KINDS = {"coarse": "superclasses", "distant": "a class of each", "fine": "classes of one superclass"}
COARSE, FINE = ["Webcam", "Caltech-101"], ["Stanford Cars", "CUB-200"]  # as Section B.3 calls them
