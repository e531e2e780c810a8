import { useSyncExternalStore } from 'react'

/** The colours of the page: those that the system prefers, or one of both. */
export type Theme = 'system' | 'light' | 'dark'

const stored = localStorage.getItem('theme')

const themes = {
  value: (stored === 'light' || stored === 'dark' ? stored : 'system') as Theme,
  readers: new Set<() => void>(),
}

/** applyTheme shows the page in the stored theme. */
export function applyTheme() {
  if (themes.value === 'system') delete document.documentElement.dataset.theme
  else document.documentElement.dataset.theme = themes.value
}

export function setTheme(theme: Theme) {
  themes.value = theme
  localStorage.setItem('theme', theme)
  applyTheme()
  for (const read of themes.readers) read()
}

export function useTheme(): Theme {
  return useSyncExternalStore(
    (reader) => {
      themes.readers.add(reader)
      return () => {
        themes.readers.delete(reader)
      }
    },
    () => themes.value,
  )
}
