import { useNavigate, useSearch } from '@tanstack/react-router'
import { type ReactElement, useEffect, useState } from 'react'
import type { Search } from '../app/router.tsx'

const TYPING_MS = 250

/** The filters of a page, as its address has them, and the way to change some of them. */
export function useFilters(): readonly [Search, (changed: Search) => void] {
  const search: Search = useSearch({ strict: false })
  const navigate = useNavigate()
  return [
    search,
    (changed) => void navigate({ to: '.', search: (before: Search) => ({ ...before, ...changed }), replace: true }),
  ]
}

/** A filter as text. The address follows once the typing rests. */
export function TextFilter({
  name,
  label,
  placeholder = label,
  className,
  options = [],
  isSearch = false,
  disabled = false,
}: {
  /** Its member of the address. */
  readonly name: string
  readonly label: string
  readonly placeholder?: string
  readonly className: string
  /** Suggestions. */
  readonly options?: readonly string[] | undefined
  /** The field that `/` leads to. */
  readonly isSearch?: boolean
  readonly disabled?: boolean
}): ReactElement {
  const [search, set] = useFilters()
  const now = search[name] ?? ''
  const [value, setValue] = useState(now)
  useEffect(() => setValue(now), [now])
  useEffect(() => {
    if (value.trim() === now) return undefined
    const timer = setTimeout(() => set({ [name]: value.trim() || undefined }), TYPING_MS)
    return () => clearTimeout(timer)
    // `set` is new in every picture, and does the same.
  }, [value])
  const list = options.length > 0 ? `filter-${name}` : undefined
  return (
    <>
      <input
        type={isSearch ? 'search' : 'text'}
        className={`field ${className}`}
        placeholder={isSearch ? `${placeholder}   /` : placeholder}
        aria-label={label}
        value={value}
        list={list}
        disabled={disabled}
        onChange={(event) => setValue(event.target.value)}
      />
      {list && (
        <datalist id={list}>
          {options.map((each) => (
            <option key={each} value={each} />
          ))}
        </datalist>
      )}
    </>
  )
}

/** A filter with a few values. */
export function ChoiceFilter({
  name,
  label,
  value,
  choices,
}: {
  readonly name: string
  readonly label: string
  readonly value: string
  readonly choices: readonly (readonly [value: string, words: string])[]
}): ReactElement {
  const [, set] = useFilters()
  return (
    <select
      className="field"
      aria-label={label}
      value={value}
      onChange={(event) => set({ [name]: event.target.value || undefined })}
    >
      {choices.map(([each, words]) => (
        <option key={each} value={each}>
          {words}
        </option>
      ))}
    </select>
  )
}
