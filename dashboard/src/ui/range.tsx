import type { ReactElement } from 'react'
import { useFilters } from './filters.tsx'

const RANGES = [
  ['15m', '15 min'],
  ['1h', '1 h'],
  ['6h', '6 h'],
  ['2d', '2 d'],
  ['30d', '30 d'],
] as const

/** The time that charts show, from the URL. */
export function rangeOf(range: string | undefined): string {
  return RANGES.find(([value]) => value === range)?.[0] ?? '15m'
}

export function RangeChoice(): ReactElement {
  const [search, set] = useFilters()
  const now = rangeOf(search['range'])
  return (
    <div
      role="group"
      aria-label="Time shown"
      className="flex rounded-md bg-sunken p-0.5 text-xs ring-1 ring-line ring-inset"
    >
      {RANGES.map(([value, words]) => (
        <button
          key={value}
          type="button"
          aria-pressed={now === value}
          onClick={() => set({ range: value })}
          className="h-6 rounded px-2 text-soft aria-pressed:bg-raised aria-pressed:font-medium aria-pressed:text-ink aria-pressed:shadow-sm"
        >
          {words}
        </button>
      ))}
    </div>
  )
}
