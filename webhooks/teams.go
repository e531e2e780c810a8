package webhooks

import (
	"encoding/json"
	"strings"

	"github.com/drover-run/drover/run"
	"github.com/drover-run/drover/spec/message"
)

// The message of a workflow of Microsoft Teams, "When a Teams webhook request is
// received": one adaptive card. All texts of users are text runs, which have no
// Markdown.
type (
	teamsMessage struct {
		Type        string            `json:"type"`
		Attachments []teamsAttachment `json:"attachments"`
	}
	teamsAttachment struct {
		ContentType string    `json:"contentType"`
		ContentURL  *string   `json:"contentUrl"` // null
		Content     teamsCard `json:"content"`
	}
	teamsCard struct {
		Schema  string        `json:"$schema"`
		Type    string        `json:"type"`
		Version string        `json:"version"`
		Body    []teamsBlock  `json:"body"`
		Actions []teamsAction `json:"actions,omitempty"`
	}
	teamsBlock struct {
		Type    string     `json:"type"`              // RichTextBlock or TextBlock
		Inlines []teamsRun `json:"inlines,omitempty"` // of a RichTextBlock
		Text    string     `json:"text,omitempty"`    // of a TextBlock
		Wrap    bool       `json:"wrap,omitempty"`
		Spacing string     `json:"spacing,omitempty"`
	}
	teamsRun struct {
		Type     string `json:"type"`
		Text     string `json:"text"`
		Size     string `json:"size,omitempty"`
		Weight   string `json:"weight,omitempty"`
		Color    string `json:"color,omitempty"`
		FontType string `json:"fontType,omitempty"`
	}
	teamsAction struct {
		Type  string `json:"type"`
		Title string `json:"title"`
		URL   string `json:"url"`
	}
)

const (
	teamsContent = "application/vnd.microsoft.card.adaptive"
	teamsSchema  = "http://adaptivecards.io/schemas/adaptive-card.json"
	// teamsVersion has RichTextBlock and is supported by all clients of Teams.
	teamsVersion = "1.4"
)

// teamsEscape escapes the Markdown of a TextBlock.
func teamsEscape(text string) string {
	var b strings.Builder
	for _, r := range text {
		if strings.ContainsRune("\\`*_{}[]()<>#+-.!|~&", r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}

func teamsLine(spacing string, runs ...teamsRun) teamsBlock {
	for i := range runs {
		runs[i].Type = "TextRun"
	}
	return teamsBlock{Type: "RichTextBlock", Inlines: runs, Spacing: spacing}
}

// teamsColor returns the color of a title.
func teamsColor(m message.Data) string {
	switch run.Outcome(m.Outcome) {
	case run.OutcomeSuccess:
		return "Good"
	case run.OutcomeFailed, run.OutcomeSetupError:
		return "Attention"
	case run.OutcomeWarnings, run.OutcomeStopped, run.OutcomeCancelled:
		return "Warning"
	}
	return ""
}

// teamsBody returns the body of a message.
func teamsBody(t *run.MessageTemplate, m message.Data) ([]byte, error) {
	w := word(t, m, teamsEscape)
	card := teamsCard{Schema: teamsSchema, Type: "AdaptiveCard", Version: teamsVersion}
	card.Body = []teamsBlock{teamsLine("", teamsRun{Text: w.title, Size: "Large", Weight: "Bolder", Color: teamsColor(m)})}
	if w.text != "" {
		card.Body = append(card.Body, teamsBlock{Type: "TextBlock", Text: w.text, Wrap: true})
	} else {
		for _, f := range m.Facts() {
			card.Body = append(card.Body, teamsLine("Small", teamsRun{Text: f.Name + ": ", Weight: "Bolder"}, teamsRun{Text: f.Value}))
		}
		for i, line := range m.FailedLines() {
			if i == 0 {
				card.Body = append(card.Body, teamsLine("Medium", teamsRun{Text: "Failed tasks", Weight: "Bolder"}))
			}
			card.Body = append(card.Body, teamsLine("Small", teamsRun{Text: line}))
		}
		card.Body = append(card.Body, teamsLine("Medium", teamsRun{Text: m.Command, FontType: "Monospace"}))
	}
	if m.Link != "" {
		card.Actions = []teamsAction{{Type: "Action.OpenUrl", Title: "Open the run", URL: m.Link}}
	}
	return json.Marshal(teamsMessage{Type: "message", Attachments: []teamsAttachment{{ContentType: teamsContent, Content: card}}})
}
