package load

import (
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/llm-prober/llm_prober/internal/experiment"
)

// clientFacts are what is known of the measuring side.
func clientFacts(tool string, began time.Time) experiment.Facts {
	host := fmt.Sprintf("%s/%s, %d processors", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	if name, err := os.Hostname(); err == nil {
		host = name + ": " + host
	}
	return experiment.Facts{Tool: tool, Host: host, Began: began}
}
