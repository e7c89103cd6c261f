package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/llm-prober/llm_prober/internal/config"
	"github.com/llm-prober/llm_prober/internal/wire"
	"github.com/llm-prober/llm_prober/prober"
)

// maxTrials bounds how many targets check-config asks at once.
const maxTrials = 8

// tryTargets sends each target one probe of each of its workloads, as the daemon would, and prints a line a target, in
// the order of the file. It reports whether all succeeded.
func tryTargets(ctx context.Context, targets []*config.Target, stdout io.Writer) bool {
	slots := make(chan struct{}, maxTrials)
	lines := make([]chan trial, len(targets))
	for i, t := range targets {
		lines[i] = make(chan trial, 1)
		go func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			lines[i] <- tryTarget(ctx, t)
		}()
	}
	all := true
	for _, line := range lines {
		one := <-line
		all = all && one.ok
		if ctx.Err() == nil {
			fmt.Fprintln(stdout, one.line)
		}
	}
	return all
}

// trial is what became of a target.
type trial struct {
	line string
	ok   bool
}

// tryTarget takes at most the timeouts of the target's workloads, twice where a first probe has to find the length of
// prompts.
func tryTarget(ctx context.Context, t *config.Target) trial {
	target := wire.Target(*t)
	runner, err := prober.NewRunner(target, prober.Options{UserAgent: userAgent()})
	if err != nil {
		return trial{line: fmt.Sprintf("target %q: FAILED: %v", t.Name, err)}
	}
	words := make([]string, len(target.Plans))
	good := make([]bool, len(target.Plans))
	var probes sync.WaitGroup
	for i := range target.Plans {
		probes.Go(func() { words[i], good[i] = tryWorkload(ctx, runner, target.Plans[i].Name) })
	}
	probes.Wait()
	verdict := "OK"
	if slices.Contains(good, false) {
		verdict = "FAILED"
	}
	return trial{fmt.Sprintf("target %q: %s: %s", t.Name, verdict, strings.Join(words, "; ")), verdict == "OK"}
}

// tryWorkload says in a few words what became of one probe.
func tryWorkload(ctx context.Context, runner *prober.Runner, workload string) (words string, ok bool) {
	res, err := once(ctx, runner, workload)
	switch {
	case err != nil:
		return fmt.Sprintf("%s: %v", workload, err), false
	case res.OK():
		words = fmt.Sprintf("%s %d tokens from %s", workload, res.OutputTokens, res.Model)
		if ttft, known := res.TTFT(); known {
			words += ", TTFT " + within(ttft)
		}
		if res.Suspect != 0 {
			words += ", suspect: " + strings.Join(res.Suspect.Names(), ", ")
		}
		return words, true
	case res.Reason == "":
		return fmt.Sprintf("%s not sent: %v", workload, res.Err), false
	}
	words = fmt.Sprintf("%s (%s): %v", workload, res.Reason, res.Err)
	if hint := connectHints()[res.Reason]; hint != "" {
		words += " (" + hint + ")"
	}
	return words, false
}

// connectHints say which key of a configuration to look at.
func connectHints() map[prober.Reason]string {
	return map[prober.Reason]string{
		prober.ReasonDNS:           "is the host in url right?",
		prober.ReasonConnect:       "is the port in url right, and does the server listen? proxy_url of http_client_config names a proxy",
		prober.ReasonTLS:           "tls_config of http_client_config has ca_file, server_name, cert_file and key_file",
		prober.ReasonAuth:          "credentials go into authorization of http_client_config, best as credentials_file",
		prober.ReasonModelNotFound: "model of the target names another, or leave it out for the first that the server lists",
		prober.ReasonBadRequest:    "drop_fields of the workload leaves a field out",
		prober.ReasonHTTPStatus:    "with 404: is the API below url in /v1? api_path names another path, host another name",
		prober.ReasonContentType:   "is this the API of an LLM server, or a page in its place?",
		prober.ReasonTimeout:       "timeout of the target bounds a whole probe",
		prober.ReasonTooLarge:      "is this the API of an LLM server?",
		prober.ReasonMalformed:     "does the server speak TLS where url says http, or the other way round?",
	}
}
