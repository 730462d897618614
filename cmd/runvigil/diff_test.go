package main

import (
	"github.com/google/go-cmp/cmp"

	"github.com/runvigil/runvigil/metrics"
)

// diffSnapshots compares two snapshots, series bucket by bucket.
func diffSnapshots(a, b *metrics.Snapshot) string { return cmp.Diff(a, b) }
