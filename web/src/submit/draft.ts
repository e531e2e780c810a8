/** A Draft is what a user wrote and did not submit, for one tab of the browser: a login in between takes the page away. */
export interface Draft {
  /** Who wrote it: it is shown to no other user. */
  by: string
  /** The template or the run that the file began with. */
  of: string
  text: string
  values: Readonly<Record<string, string>>
}

const key = 'submit.draft'

export function readDraft(by: string, of: string, store: Storage = sessionStorage): Draft | undefined {
  try {
    const draft = JSON.parse(store.getItem(key) ?? 'null') as Draft | null
    return draft?.by === by && draft.of === of && typeof draft.text === 'string' ? { ...draft, values: draft.values ?? {} } : undefined
  } catch {
    return undefined
  }
}

/** writeDraft keeps a draft. A file that is too large for the browser's storage is not kept. */
export function writeDraft(draft: Draft, store: Storage = sessionStorage) {
  try {
    store.setItem(key, JSON.stringify(draft))
  } catch {
    store.removeItem(key)
  }
}

export function clearDraft(store: Storage = sessionStorage) {
  store.removeItem(key)
}
