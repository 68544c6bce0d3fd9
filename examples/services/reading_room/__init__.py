"""A service that sells reading: search, outlines and excerpts of a folder of documents, and text measures."""
