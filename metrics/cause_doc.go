package metrics

import "strings"

// CausesMarkdown renders the closed list of causes as docs/causes.md.
func CausesMarkdown() string {
	var b strings.Builder
	b.WriteString("# Causes\n\n")
	b.WriteString("The closed list of fault classes. Findings, `runvigil explain` and `check --json` use these words and no others.\n")
	b.WriteString("In `explain --json` the one with `primary: true` is the cause, the others are its consequences.\n\n")
	b.WriteString("Generated from metrics/cause.go by `go test ./metrics -run TestCausesDoc -update`.\n\n")
	b.WriteString("| cause | where | what it means | what to do, unless a finding says more |\n| --- | --- | --- | --- |\n")
	for _, c := range causes {
		b.WriteString("| `" + string(c.Cause) + "` | " + string(c.Side) + " | " + c.Meaning + " | " + c.Advice + " |\n")
	}
	return b.String()
}
