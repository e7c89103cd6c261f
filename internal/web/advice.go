package web

import "github.com/llm-prober/llm_prober/prober"

// advice says what a failure means and what to look at, in the order in which to do it.
type advice struct {
	Means string
	Check []string
}

// adviceFor is complete: a test holds it against prober.Reasons.
func adviceFor(reason prober.Reason) advice { return advices()[reason] }

func advices() map[prober.Reason]advice {
	return map[prober.Reason]advice{
		prober.ReasonDNS: {
			"The host name of the target could not be resolved.",
			[]string{"Is the name in the target's URL right?", "Resolve it on the prober's machine (getent hosts NAME); is its resolver up?", "In Kubernetes: does the Service exist, in that namespace?"},
		},
		prober.ReasonConnect: {
			"No TCP connection: nothing listens, or something on the way drops or refuses it.",
			[]string{"Is the server's process running, and does it listen on this port? A model that still loads listens late.", "Look at the end of its log: out of memory, CUDA error, killed.", "Refused means the machine answers; a time-out means a firewall, a wrong address or a dead machine."},
		},
		prober.ReasonTLS: {
			"The TLS handshake failed.",
			[]string{"Does the error below name a file? The target is probed again once it can be used.", "Has the certificate expired, or does it name another host?", "Does the prober know the authority (tls_config.ca_file)?", "Does the server want a client certificate, or speak plain HTTP on this port?"},
		},
		prober.ReasonHTTPStatus: {
			"The server answered with a status that no probe expects. Redirects are not followed.",
			[]string{"Read the body below.", "404 without a model: is the URL the base, with or without /v1, and nothing after it?", "502 or 504: a proxy answers and the server behind it does not.", "500: look at the server's log at this time."},
		},
		prober.ReasonRateLimited: {
			"The server or a gateway refused the probe: too many requests (429).",
			[]string{"Are users refused too? Then the limit, not the server, is what they feel.", "Give the prober's key a limit of its own, or probe less often."},
		},
		prober.ReasonOverloaded: {
			"The server said that it cannot take the request now (503 or 529).",
			[]string{"Is the queue long? See requests waiting.", "Is the server starting, draining or without a healthy replica?", "Look at the gateway's view of its backends."},
		},
		prober.ReasonAuth: {
			"The server refused the credentials (401 or 403), or they could not be read.",
			[]string{"Was the key rotated or revoked? The file is read again at every probe.", "May the prober's user read the credentials file?", "May this key use this model?"},
		},
		prober.ReasonModelNotFound: {
			"The server does not serve the model that the probe names.",
			[]string{"Compare with what /v1/models lists.", "Was the server restarted with another --served-model-name?", "Leave the target's model out to probe the first one listed."},
		},
		prober.ReasonBadRequest: {
			"The server refused the request itself (400 or 422).",
			[]string{"Read the body below: it names the field or the limit.", "Do prompt and output tokens fit into max_model_len?", "A field that the server does not know goes into the workload's drop_fields."},
		},
		prober.ReasonContentType: {
			"The answer is not an event stream, although the status was 200.",
			[]string{"Does a proxy or a login page answer in the server's place? Read the body below.", "Is streaming switched off on the way?"},
		},
		prober.ReasonTimeout: {
			"The probe took longer than its whole timeout.",
			[]string{"Are requests waiting? Then the server is full, not hung.", "Nothing waits, and the server's own numbers stand still: the engine hangs. /health may still say healthy.", "Otherwise see which part of the time line is long."},
		},
		prober.ReasonStalled: {
			"Tokens came, then none for the stall timeout.",
			[]string{"Do the server's own numbers still move? If not, the engine hangs: keep a stack dump (py-spy dump) before the restart.", "If they move: preemptions, a KV cache that is full, or a proxy that holds the stream back."},
		},
		prober.ReasonTruncated: {
			"The stream ended without a finish reason and without [DONE].",
			[]string{"Did the server or its engine crash in mid answer? Look at its log at this time.", "Does a proxy cut long answers (idle or read timeout)?"},
		},
		prober.ReasonMalformed: {
			"The stream held something that is not what the API promises.",
			[]string{"Read the error below: it quotes the event.", "Was the server updated? Does a gateway rewrite answers?"},
		},
		prober.ReasonTooLarge: {
			"The answer exceeded what a probe reads.",
			[]string{"Is this URL really the API of an LLM server?", "Does the server honour max_tokens?"},
		},
		prober.ReasonServerError: {
			"The server reported an error inside the stream, after it had said 200.",
			[]string{"Read the error below.", "Look at the engine's log: out of memory, dead worker, aborted request."},
		},
		prober.ReasonEmptyOutput: {
			"The stream ended well, but no token came.",
			[]string{"Does the model stop at once (chat template, stop tokens)?", "Is ignore_eos or min_tokens among the workload's drop_fields?"},
		},
		prober.ReasonConnReset: {
			"The connection was cut while the probe used it.",
			[]string{"Did the server's process die? Look for a restart, an OOM kill, a CUDA error.", "Does a load balancer cut connections?"},
		},
		prober.ReasonInternal: {
			"The prober itself failed. This says nothing about the server.",
			[]string{"Is it out of file descriptors or ports? The error below names the limit: raise it, or ask who else uses them up.", "Does a firewall on the prober's own machine forbid the connection?", "Otherwise look at the prober's log and report it."},
		},
	}
}

// suspectMeaning says why a success is doubted, by the name of the doubt.
func suspectMeaning(name string) string { return suspectMeanings()[name] }

func suspectMeanings() map[string]string {
	return map[string]string{
		"prompt_length":  "the server counted another number of prompt tokens than was asked for",
		"short_output":   "fewer tokens came than were asked for",
		"long_output":    "cut at twice the tokens asked for; no duration and no time per token",
		"cached_prompt":  "part of the prompt was in the server's cache, so prefill was shorter than it should be",
		"coalesced":      "tokens arrived in bursts: something on the way buffers; no inter-token latency",
		"reader_late":    "the prober read too late to know when some tokens came; what is not known to 1 ms or 2 % is not recorded",
		"usage_mismatch": "the server's numbers and its stream disagree, or one of them is impossible",
		"no_done":        "the stream ended without [DONE]",
		"content_type":   "an event stream under another content type",
		"field_refused":  "the server refused a field of the request; it was sent again without it",
		"degenerate":     "the answer is one character, over and over",
		"other_model":    "the stream names another model than the request",
		"finish_reason":  "all tokens came, but under a finish_reason that the prober does not know",
	}
}
