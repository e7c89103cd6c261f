package sweep

import (
	"fmt"
	"os"
	"runtime"
	"time"
)

// clientFacts are what is known of the measuring side.
func clientFacts(tool string, began time.Time) Facts {
	host := fmt.Sprintf("%s/%s, %d processors", runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	if name, err := os.Hostname(); err == nil {
		host = name + ": " + host
	}
	return Facts{Tool: tool, Host: host, Began: began}
}
