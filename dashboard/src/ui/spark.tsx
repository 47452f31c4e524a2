import type { ReactElement } from 'react'

const WIDTH = 96
const HEIGHT = 22

/** The last minutes of one figure as a small picture. The words say the same to people who cannot see it. */
export function Spark({ points, label }: { readonly points: readonly number[]; readonly label: string }): ReactElement {
  const top = Math.max(1, ...points)
  const step = points.length > 1 ? WIDTH / (points.length - 1) : WIDTH
  const line = points.map(
    (value, n) => `${(n * step).toFixed(1)},${(HEIGHT - 1 - (value / top) * (HEIGHT - 3)).toFixed(1)}`,
  )
  return (
    <svg
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      width={WIDTH}
      height={HEIGHT}
      role="img"
      aria-label={label}
      className="inline-block"
    >
      {line.length > 1 && (
        <>
          <polygon points={`0,${HEIGHT} ${line.join(' ')} ${WIDTH},${HEIGHT}`} fill="var(--plot-1)" opacity="0.14" />
          <polyline
            points={line.join(' ')}
            fill="none"
            stroke="var(--plot-1)"
            strokeWidth="1.5"
            strokeLinejoin="round"
          />
        </>
      )}
    </svg>
  )
}
