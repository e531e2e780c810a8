// Package secrets reads secrets to which a run only refers (run.SecretRef) from
// their providers: the environment or files of the gateway, or HashiCorp Vault.
// It reads them each time a task is claimed, and stores them nowhere.
//
// Operators decide which secrets runs may use: each provider reads only below its
// prefix or directory, and only for runs of its groups.
package secrets
