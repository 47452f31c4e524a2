import { useSyncExternalStore } from 'react'

/** `system` follows the viewer's machine. */
export type Theme = 'light' | 'dark' | 'system'

const KEY = 'sluice.theme'
const dark = matchMedia('(prefers-color-scheme: dark)')
const listeners = new Set<() => void>()

function stored(): Theme {
  const value = localStorage.getItem(KEY)
  return value === 'light' || value === 'dark' ? value : 'system'
}

function apply(): void {
  const theme = stored()
  document.documentElement.dataset['theme'] = theme === 'system' ? (dark.matches ? 'dark' : 'light') : theme
  for (const listener of listeners) listener()
}

/** Sets the theme before the first picture, and again when the machine's changes. */
export function startTheme(): void {
  apply()
  dark.addEventListener('change', apply)
}

export function setTheme(theme: Theme): void {
  if (theme === 'system') localStorage.removeItem(KEY)
  else localStorage.setItem(KEY, theme)
  apply()
}

/** The chosen theme, and the one that shows. */
export function useTheme(): { readonly theme: Theme; readonly shown: 'light' | 'dark' } {
  const subscribe = (listener: () => void): (() => void) => {
    listeners.add(listener)
    return () => listeners.delete(listener)
  }
  const theme = useSyncExternalStore(subscribe, stored)
  const shown = useSyncExternalStore(subscribe, () => document.documentElement.dataset['theme'] ?? 'light')
  return { theme, shown: shown === 'dark' ? 'dark' : 'light' }
}
