"""Slides for the meetings of a reading group, made from the notebooks' own pictures (`make slides`)."""
