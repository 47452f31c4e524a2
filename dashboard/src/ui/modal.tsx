import { type ReactElement, type ReactNode, useEffect, useId, useRef } from 'react'
import { Button } from './parts.tsx'

/** A dialog over the page. The browser's own element holds the focus and needs no style of its own in the page. */
export function Modal({
  open,
  onClose,
  title,
  children,
  actions,
  wide = false,
}: {
  readonly open: boolean
  readonly onClose: () => void
  readonly title: ReactNode
  readonly children: ReactNode
  readonly actions?: ReactNode
  readonly wide?: boolean
}): ReactElement | null {
  const element = useRef<HTMLDialogElement>(null)
  const heading = useId()
  useEffect(() => {
    const dialog = element.current
    if (open && dialog && !dialog.open) dialog.showModal()
  }, [open])
  if (!open) return null
  return (
    <dialog
      ref={element}
      aria-labelledby={heading}
      onClose={onClose}
      onClick={(event) => {
        if (event.target === element.current) onClose()
      }}
      className={`m-auto max-h-[90dvh] w-[calc(100vw-2rem)] rounded-xl border border-line bg-raised p-0 text-ink shadow-float ${wide ? 'max-w-3xl' : 'max-w-lg'}`}
    >
      <div className="flex max-h-[90dvh] flex-col">
        <header className="flex items-center justify-between gap-4 border-b border-line py-2 pr-2 pl-5">
          <h2 id={heading} className="min-w-0 text-base font-semibold [overflow-wrap:anywhere]">
            {title}
          </h2>
          <Button kind="quiet" onClick={onClose} aria-label="Close" className="w-9 px-0 text-lg">
            ×
          </Button>
        </header>
        <div className="overflow-y-auto p-5">{children}</div>
        {actions !== undefined && (
          <footer className="flex flex-wrap justify-end gap-2 border-t border-line bg-sunken px-5 py-3">
            {actions}
          </footer>
        )}
      </div>
    </dialog>
  )
}
