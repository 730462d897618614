// Package testdata embeds the recordings that the program ships.
//
// story.rv is the story's run from the simulated node's frames driver, in
// virtual time; `go test ./cmd/runvigil -run EmbeddedStory -update` renews it.
package testdata

import _ "embed"

// Story is a recording of the default scenario.
//
//go:embed story.rv
var Story []byte
