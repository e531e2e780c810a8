package checkout

// clearUmask does nothing: there is no umask.
func clearUmask() {}
