// Package secrets gets the values of secrets that a run only refers to
// (run.SecretRef) from where they are kept: the environment or files of the
// gateway, or HashiCorp Vault. They are read each time a task is handed out,
// and kept nowhere.
//
// What may be referred to is the operators' choice: each provider reaches no
// further than its prefix or directory, and only for runs of its groups.
package secrets
