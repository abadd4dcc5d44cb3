"""The command line: arguments to one library call, results to text or one JSON document."""
