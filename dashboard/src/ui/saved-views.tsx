import { useNavigate, useSearch } from '@tanstack/react-router'
import { type ReactElement, useState } from 'react'
import type { Search } from '../app/router.tsx'
import { Button } from './parts.tsx'

const KEY = 'sluice.views'

interface SavedView {
  readonly name: string
  readonly search: Search
}

function read(): SavedView[] {
  try {
    const value: unknown = JSON.parse(localStorage.getItem(KEY) ?? '[]')
    return Array.isArray(value) ? (value as SavedView[]) : []
  } catch {
    return []
  }
}

/** Filters kept under a name in this browser. */
export function SavedViews(): ReactElement {
  const [views, setViews] = useState(read)
  const search: Search = useSearch({ strict: false })
  const navigate = useNavigate()
  const [name, setName] = useState<string | null>(null)
  const keep = (next: SavedView[]): void => {
    localStorage.setItem(KEY, JSON.stringify(next))
    setViews(next)
  }
  const filtered = Object.values(search).some(Boolean)
  return (
    <>
      {views.length > 0 && (
        <select
          className="field"
          aria-label="Saved views"
          value=""
          onChange={(event) => {
            const view = views.find((each) => each.name === event.target.value)
            if (view) void navigate({ to: '/jobs', search: view.search })
            else keep([])
          }}
        >
          <option value="">Saved views</option>
          {views.map((each) => (
            <option key={each.name} value={each.name}>
              {each.name}
            </option>
          ))}
          <option value={'\u0000'}>Forget all</option>
        </select>
      )}
      {filtered &&
        (name === null ? (
          <Button onClick={() => setName('')}>Save view</Button>
        ) : (
          <form
            className="flex gap-2"
            onSubmit={(event) => {
              event.preventDefault()
              const kept = name.trim()
              if (kept !== '') keep([...views.filter((each) => each.name !== kept), { name: kept, search }])
              setName(null)
            }}
          >
            <input
              className="field w-40"
              aria-label="Name of the view"
              placeholder="name of the view"
              maxLength={60}
              value={name}
              autoFocus
              onChange={(event) => setName(event.target.value)}
            />
            <Button type="submit" kind="primary">
              Save
            </Button>
          </form>
        ))}
    </>
  )
}
