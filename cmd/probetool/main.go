// Command probetool is the companion of llm_prober: it checks configurations, explains single probes, and runs finite
// experiments on a server or on a model of one.
package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/alecthomas/kingpin/v2"
	"github.com/prometheus/common/version"
)

// Exit codes.
const (
	exitOK          = 0
	exitFailed      = 1 // the probe or the run failed, or a level of it is not to be trusted
	exitUsage       = 2 // bad flags or configuration
	exitInterrupted = 130
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run runs a command line and returns the exit code. A command that has not ended a second after ctx, since it waits
// for a file, a pipe or a file system that does not answer, is left behind, unless it has results to finish.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	results := new(finishing)
	ended := make(chan int, 1)
	go func() { ended <- chosen(context.WithValue(ctx, finishingKey{}, results), args, stdout, stderr) }()
	select {
	case code := <-ended:
		return code
	case <-ctx.Done():
	}
	for !results.Load() {
		select {
		case code := <-ended:
			return code
		case <-time.After(patience):
			if !results.Load() {
				return exitInterrupted
			}
		}
	}
	return <-ended
}

// patience is how long an interrupted command may take to end by itself.
const patience = time.Second

// finishing is whether a command keeps results, which it stores and reports also when it is interrupted: however long
// that takes, it is waited for.
type finishing struct{ atomic.Bool }

type finishingKey struct{}

// keepsResults tells [run] that the command keeps results from now on.
func keepsResults(ctx context.Context) {
	if f, is := ctx.Value(finishingKey{}).(*finishing); is {
		f.Store(true)
	}
}

// chosen runs the command of a command line.
func chosen(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	app, commands := newApp(stdout)
	name, err := app.Parse(args)
	if err != nil {
		fmt.Fprintf(stderr, "probetool: %s\nSee probetool --help.\n", err)
		return exitUsage
	}
	return commands[name](ctx, stdout, stderr)
}

// command runs a command that was chosen and returns the exit code.
type command func(ctx context.Context, stdout, stderr io.Writer) int

// newApp makes the command line and what each of its commands runs.
func newApp(stdout io.Writer) (*kingpin.Application, map[string]command) {
	app := kingpin.New("probetool", "Checks configurations of llm_prober, explains single probes, and finds the load that a server should be run at.")
	app.Version(version.Print("probetool"))
	app.HelpFlag.Short('h')
	app.UsageWriter(stdout)
	check := checkCommand(app)
	probe := probeCommand(app)
	commands := map[string]command{
		check.command: check.run,
		probe.command: probe.run,
	}
	maps.Copy(commands, sweepCommands(app))
	maps.Copy(commands, simulateCommands(app))
	return app, commands
}
