package vllmsim

import "encoding/json"

// completionsAPI is POST /v1/completions.
type completionsAPI struct{}

func (completionsAPI) idPrefix() string { return "cmpl-" }

func (completionsAPI) limits() []string { return []string{"max_tokens"} }

// prompt reads a text or a list of token ids.
func (completionsAPI) prompt(b *body) ([]int, *apiError) {
	var (
		text   string
		tokens []int
	)
	if json.Unmarshal(b.fields["prompt"], &text) == nil {
		tokens = ids(tokenize(text))
	} else if b.decode("prompt", &tokens); b.err() != nil {
		return nil, b.err()
	}
	if len(tokens) == 0 {
		return nil, badRequest("prompt", "Either prompt or prompt_embeds must be provided and non-empty. (parameter=prompt)")
	}
	for _, id := range tokens {
		if id < 0 || id >= vocabSize {
			return nil, badRequest("", "Token id %d is out of vocabulary", id)
		}
	}
	return tokens, nil
}

func (completionsAPI) opening(*answer) any { return nil }

func (completionsAPI) chunk(a *answer, d delta) any {
	type choice struct {
		Index          int     `json:"index"`
		Text           string  `json:"text"`
		Logprobs       *int    `json:"logprobs"`
		FinishReason   *string `json:"finish_reason"`
		StopReason     *string `json:"stop_reason"`
		PromptTokenIDs []int   `json:"prompt_token_ids"`
		TokenIDs       []int   `json:"token_ids"`
	}
	c := choice{Text: d.content, TokenIDs: a.tokenIDs(d)}
	if d.first && a.req.returnTokenIDs {
		c.PromptTokenIDs = a.prompt
	}
	if d.last {
		c.FinishReason = &a.plan.finish
	}
	return a.textChunk("text_completion", c, d.last, nil)
}

func (completionsAPI) usage(a *answer) any {
	u := a.usage()
	if a.cfg.PromptTokensDetails {
		u.PromptTokensDetails = promptDetails{CachedTokens: a.plan.cached}
	}
	return a.usageChunk("text_completion", u)
}

func (completionsAPI) whole(a *answer, d delta) any {
	type choice struct {
		Index          int     `json:"index"`
		Text           string  `json:"text"`
		Logprobs       *int    `json:"logprobs"`
		FinishReason   string  `json:"finish_reason"`
		StopReason     *string `json:"stop_reason"`
		TokenIDs       []int   `json:"token_ids"`
		PromptLogprobs *int    `json:"prompt_logprobs"`
		PromptTokenIDs []int   `json:"prompt_token_ids"`
		RoutedExperts  *int    `json:"routed_experts"`
	}
	c := choice{Text: d.content, FinishReason: a.plan.finish, TokenIDs: a.tokenIDs(d)}
	if a.req.returnTokenIDs {
		c.PromptTokenIDs = a.prompt
	}
	return struct {
		wholeHead
		wholeTail
	}{a.wholeHead("text_completion", c, null()), a.wholeTail()}
}
