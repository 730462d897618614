package restart

// Truncates names an argument of a client's command that makes it begin its
// dataset anew, "" where there is none that is known.
func Truncates(argv []string) string { return truncates(argv) }
