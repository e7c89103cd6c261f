//go:build linux

// Command compare runs `probetool sweep` and other benchmark clients side by side and writes the tables of
// docs/comparison.md. It needs two processors, and setup.sh to have put the clients in place.
//
//	go run ./compare clients    against a mock server that knows when it sent every token
//	go run ./compare vllm       against a real vLLM, one client after another
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/llm-prober/llm_prober/e2e/child"
	"github.com/llm-prober/llm_prober/e2e/figures"
	"github.com/llm-prober/llm_prober/e2e/mock"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

// options are the command line.
type options struct {
	programs
	root    string // of the llm_prober module
	dir     string // the runs' own
	rounds  int
	clients []client
	loads   []string // names of those to run; empty: all
	url     string   // of a vLLM that runs already
	quick   bool
}

func run(ctx context.Context, arguments []string) error {
	if played, err := child.Played(arguments, map[string]child.Role{"mock": mock.Role}); played {
		return err
	}
	comparisons := map[string]func(context.Context, options) (string, error){"clients": compareClients, "vllm": compareVLLM}
	if len(arguments) == 0 || comparisons[arguments[0]] == nil {
		return errors.New("which comparison? clients or vllm")
	}
	name := arguments[0]
	var o options
	flags := flag.NewFlagSet(name, flag.ExitOnError)
	out := flags.String("out", "", "document to put the tables into, between its markers")
	only := flags.String("only", "", "comma-separated names of the clients to run (default all)")
	loads := flags.String("loads", "", `comma-separated loads to run, as the tables name them: "c=16,8/s" (default all)`)
	flags.StringVar(&o.dir, "dir", "", "directory for what the clients write; a run that is there already is not repeated (default a new one)")
	flags.IntVar(&o.rounds, "rounds", 3, "runs of each client at each load, in rotating order; their medians are reported")
	flags.StringVar(&o.url, "url", "", "of a vLLM that runs already and has the tokenizer of the tiny model (default: one is started)")
	flags.BoolVar(&o.quick, "quick", false, "a few requests only, to see whether everything works")
	flags.StringVar(&o.root, "root", "..", "directory of the llm_prober module")
	if err := flags.Parse(arguments[1:]); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if *loads != "" {
		o.loads = strings.Split(*loads, ",")
	}
	if err := o.prepare(ctx, *only); err != nil {
		return err
	}
	text, err := comparisons[name](ctx, o)
	if err != nil {
		return err
	}
	fmt.Println(text)
	if *out == "" {
		return nil
	}
	return figures.Insert(*out, "compare:"+name, text)
}

// prepare builds probetool, makes the directory for the runs and chooses the clients.
func (o *options) prepare(ctx context.Context, only string) (err error) {
	if o.dir == "" {
		o.dir, err = os.MkdirTemp("", "llm_prober-compare-")
	} else {
		err = os.MkdirAll(o.dir, 0o755)
	}
	if err != nil {
		return err
	}
	if o.dir, err = filepath.Abs(o.dir); err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "what the clients write is in", o.dir)
	probetool := filepath.Join(o.dir, "probetool")
	build := exec.CommandContext(ctx, "go", "build", "-o", probetool, "./cmd/probetool")
	build.Dir, build.Stderr = o.root, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("building probetool: %w", err)
	}
	if o.programs, err = findPrograms(probetool); err != nil {
		return err
	}
	for _, c := range clients() {
		wanted := only == "" || slices.Contains(strings.Split(only, ","), c.Name)
		if c.Name == "vllm-bench" && o.vllmBench == "" {
			fmt.Fprintln(os.Stderr, "vllm-bench is left out: it is not installed")
			wanted = false
		}
		if wanted {
			o.clients = append(o.clients, c)
		}
	}
	if len(o.clients) == 0 {
		return errors.New("no client is left")
	}
	return nil
}

// wants reports whether a load is to be run.
func (o options) wants(l load) bool { return len(o.loads) == 0 || slices.Contains(o.loads, l.name()) }

// rotated lists the clients in the order of a round: each is the first once, the second once, and so on.
func (o options) rotated(round int) []client {
	by := round % len(o.clients)
	return slices.Concat(o.clients[by:], o.clients[:by])
}
