import { type ReactElement, useState } from 'react'

const AT_ONCE = 100

/** A JSON value as a tree. All of it is text: nothing in a payload can become a part of the page. */
export function JsonTree({
  value,
  name,
  depth = 0,
}: {
  readonly value: unknown
  readonly name?: string
  readonly depth?: number
}): ReactElement {
  const [open, setOpen] = useState(depth < 2)
  const [shown, setShown] = useState(AT_ONCE)
  if (value === null || typeof value !== 'object')
    return (
      <div className="font-mono text-[0.8rem] leading-6 [overflow-wrap:anywhere] whitespace-pre-wrap">
        <Name name={name} />
        <Leaf value={value} />
      </div>
    )
  const list = Array.isArray(value)
  const entries = Object.entries(value)
  const words = list ? `[${entries.length}]` : `{${entries.length}}`
  if (entries.length === 0)
    return (
      <div className="font-mono text-[0.8rem] leading-6">
        <Name name={name} />
        <span className="text-faint">{list ? '[ ]' : '{ }'}</span>
      </div>
    )
  return (
    <div className="font-mono text-[0.8rem] leading-6">
      <button type="button" aria-expanded={open} onClick={() => setOpen(!open)} className="text-left hover:text-accent">
        <span aria-hidden="true" className="inline-block w-4 text-faint">
          {open ? '▾' : '▸'}
        </span>
        <Name name={name ?? (depth === 0 ? 'value' : undefined)} />
        <span className="text-faint">{words}</span>
      </button>
      {open && (
        <div className="ml-[0.45rem] border-l border-line pl-3">
          {entries.slice(0, shown).map(([key, inner]) => (
            <JsonTree key={key} name={key} value={inner} depth={depth + 1} />
          ))}
          {entries.length > shown && (
            <button type="button" className="link" onClick={() => setShown(shown + AT_ONCE)}>
              {entries.length - shown} more
            </button>
          )}
        </div>
      )}
    </div>
  )
}

function Name({ name }: { readonly name: string | undefined }): ReactElement | null {
  return name === undefined ? null : (
    <>
      <span className="text-info">{name}</span>
      <span className="text-faint">: </span>
    </>
  )
}

function Leaf({ value }: { readonly value: unknown }): ReactElement {
  if (typeof value === 'string') return <span className="text-good">{JSON.stringify(value)}</span>
  if (typeof value === 'number') return <span className="text-violet">{String(value)}</span>
  return <span className="text-warn">{String(value)}</span>
}
