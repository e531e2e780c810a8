package contract

// WebhookWorkflow delivers the events of one webhook. It ends when the webhook
// is deleted or disabled, and the next signal starts it again.
const WebhookWorkflow = "webhook"

// SignalWebhook notifies the workflow of a webhook that a client created,
// changed or deleted it; no payload.
const SignalWebhook = "webhook-changed"

// ActivityDeliverEvents delivers the events of a webhook, for as long as the webhook
// exists and is enabled.
const ActivityDeliverEvents = "deliver-events"

// WaitQueue is the task queue of long-running control activities: they mostly
// wait, and there may be many at once.
const WaitQueue = "wait"

// WebhookWorkflowID is the workflow id of a webhook.
func WebhookWorkflowID(name string) string { return "webhook:" + name }

// WebhookInput starts the workflow of a webhook.
type WebhookInput struct {
	Name string `json:"name"`
	// Limits bound the execution; nil means the defaults.
	Limits *Limits `json:"limits,omitempty"`
}

// DeliverInput is the input of deliver-events.
type DeliverInput struct {
	Name string `json:"name"`
}

// DeliverResult is the result of deliver-events.
type DeliverResult struct {
	// WorkerStopping says that its worker stops, and that there are more events to
	// deliver.
	WorkerStopping bool `json:"worker_stopping,omitempty"`
	// Reason says why there is no receiver any more; for users.
	Reason string `json:"reason,omitempty"`
}
