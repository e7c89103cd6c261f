// Command probetool is the companion of llm_prober: it checks configurations and explains single probes.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/version"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1 // the probe failed
	exitUsage       = 2 // bad flags or configuration
	exitInterrupted = 130
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	app := kingpin.New("probetool", "Checks configurations of llm_prober and explains single probes.")
	app.Version(version.Print("probetool"))
	app.HelpFlag.Short('h')
	app.UsageWriter(stdout)
	check := checkCommand(app)
	probe := probeCommand(app)
	chosen, err := app.Parse(args)
	if err != nil {
		fmt.Fprintf(stderr, "probetool: %s\nSee probetool --help.\n", err)
		return exitUsage
	}
	if chosen == probe.command {
		return probe.run(ctx, stdout, stderr)
	}
	return check.run(stdout, stderr)
}
