//go:build system

package findings_test

import (
	"testing"
	"time"
)

// Six hours, which take half a minute to reckon.
func TestSixQuietHours(t *testing.T) {
	for _, scenario := range []string{"restless", "healthy", "idle"} {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			quiet(t, scenario, 6*time.Hour)
		})
	}
}
