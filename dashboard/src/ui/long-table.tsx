import { useWindowVirtualizer } from '@tanstack/react-virtual'
import { type ReactElement, useLayoutEffect, useRef, useState } from 'react'
import { ROW_PX, Rows, type TableProps } from './table.tsx'

/** A table of which only the rows near the view are in the page. */
export function LongTable(props: TableProps<unknown>): ReactElement {
  const { rows } = props
  const box = useRef<HTMLDivElement>(null)
  const [top, setTop] = useState(0)
  useLayoutEffect(() => {
    setTop((box.current?.getBoundingClientRect().top ?? 0) + scrollY)
  }, [rows.length])
  const virtualizer = useWindowVirtualizer({
    count: rows.length,
    estimateSize: () => ROW_PX,
    overscan: 12,
    scrollMargin: top + ROW_PX,
  })
  const items = virtualizer.getVirtualItems()
  const first = items[0]
  const last = items.at(-1)
  const margin = virtualizer.options.scrollMargin
  return (
    <div ref={box}>
      <Rows
        {...props}
        shown={{
          rows: items.map(({ index }) => rows[index]),
          offset: first?.index ?? 0,
          above: first ? first.start - margin : 0,
          below: last ? virtualizer.getTotalSize() - (last.end - margin) : 0,
        }}
      />
    </div>
  )
}
