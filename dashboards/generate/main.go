// Command generate writes the JSON files of the dashboards into the working folder.
package main

import (
	"fmt"
	"os"

	"github.com/llm-prober/llm_prober/dashboards"
)

func main() {
	if err := write(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func write() error {
	files, err := dashboards.Files()
	if err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(name, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
