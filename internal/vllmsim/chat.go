package vllmsim

import "fmt"

// chatAPI is POST /v1/chat/completions.
type chatAPI struct{}

func (chatAPI) idPrefix() string { return "chatcmpl-" }

func (chatAPI) limits() []string { return []string{"max_tokens", "max_completion_tokens"} }

func (chatAPI) prompt(b *body) ([]int, *apiError) {
	if !b.has("messages") {
		return nil, validationError("body.messages", problem{
			"missing", "body.messages", "Field required", fmt.Sprintf("<dict of %d items>", len(b.fields)),
		}.String())
	}
	var messages []message
	if b.decode("messages", &messages); b.err() != nil {
		return nil, b.err()
	}
	if len(messages) == 0 {
		return nil, badRequest("", "Cannot apply chat template to an empty conversation. Provide at least one message.")
	}
	return ids(chatPieces(messages, true)), nil
}

type chatRole struct {
	Role    string `json:"role"`
	Content string `json:"content"`
}

type chatDelta struct {
	Reasoning *string `json:"reasoning,omitempty"`
	Content   *string `json:"content,omitempty"`
}

func (d delta) chat() (c chatDelta) {
	if d.hasReasoning {
		c.Reasoning = &d.reasoning
	}
	if d.hasContent {
		c.Content = &d.content
	}
	return c
}

func (chatAPI) opening(a *answer) any {
	type choice struct {
		Index        int      `json:"index"`
		Delta        chatRole `json:"delta"`
		Logprobs     *int     `json:"logprobs"`
		FinishReason *string  `json:"finish_reason"`
	}
	type roleChunk struct {
		chunk
		PromptTokenIDs []int   `json:"prompt_token_ids"`
		PromptText     *string `json:"prompt_text"`
	}
	c := roleChunk{chunk: a.newChunk("chat.completion.chunk", choice{Delta: chatRole{Role: "assistant"}})}
	c.Usage = a.continuousUsage(a.chatDetails())
	if a.req.returnTokenIDs {
		c.PromptTokenIDs = a.prompt
	}
	return c
}

func (chatAPI) chunk(a *answer, d delta) any {
	type choice struct {
		Index        int       `json:"index"`
		Delta        chatDelta `json:"delta"`
		Logprobs     *int      `json:"logprobs"`
		FinishReason *string   `json:"finish_reason"`
		StopReason   any       `json:"stop_reason,omitempty"` // null, on the last chunk only
		TokenIDs     []int     `json:"token_ids"`
	}
	c := choice{Delta: d.chat(), TokenIDs: a.tokenIDs(d)}
	if d.last {
		c.FinishReason, c.StopReason = &a.plan.finish, null()
	}
	return a.textChunk("chat.completion.chunk", c, d.last, a.chatDetails())
}

// chatDetails tells the reasoning tokens so far, null without a parser.
func (a *answer) chatDetails() any {
	if a.cfg.ReasoningParser {
		return reasoningTokens{a.thought}
	}
	return null()
}

func (chatAPI) usage(a *answer) any {
	u := a.usage()
	if a.cfg.PromptTokensDetails {
		u.PromptTokensDetails = promptDetails{CachedTokens: a.plan.cached, CreatedCacheTokens: a.created}
	}
	if a.cfg.ReasoningParser {
		u.CompletionTokensDetails = a.chatDetails()
	}
	return a.usageChunk("chat.completion.chunk", u)
}

func (chatAPI) whole(a *answer, d delta) any {
	type text struct {
		Role         string  `json:"role"`
		Content      *string `json:"content"`
		Refusal      *string `json:"refusal"`
		Annotations  *string `json:"annotations"`
		Audio        *string `json:"audio"`
		FunctionCall *string `json:"function_call"`
		Reasoning    *string `json:"reasoning"`
	}
	type choice struct {
		Index         int     `json:"index"`
		Message       text    `json:"message"`
		Logprobs      *int    `json:"logprobs"`
		FinishReason  string  `json:"finish_reason"`
		StopReason    *string `json:"stop_reason"`
		TokenIDs      []int   `json:"token_ids"`
		RoutedExperts *int    `json:"routed_experts"`
	}
	type chatWhole struct {
		wholeHead
		PromptLogprobs *int    `json:"prompt_logprobs"`
		PromptTokenIDs []int   `json:"prompt_token_ids"`
		PromptText     *string `json:"prompt_text"`
		wholeTail
	}
	c := d.chat()
	w := chatWhole{wholeHead: a.wholeHead("chat.completion", choice{
		Message:      text{Role: "assistant", Content: c.Content, Reasoning: c.Reasoning},
		FinishReason: a.plan.finish, TokenIDs: a.tokenIDs(d),
	}, a.created), wholeTail: a.wholeTail()}
	if a.req.returnTokenIDs {
		w.PromptTokenIDs = a.prompt
	}
	return w
}
