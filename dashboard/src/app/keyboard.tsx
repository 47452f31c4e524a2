import { useNavigate } from '@tanstack/react-router'
import { type ReactElement, useEffect, useState } from 'react'
import { Modal } from '../ui/modal.tsx'

/** The pages, in the order of the menu. */
export const PLACES = [
  { to: '/', name: 'Overview', letter: 'o' },
  { to: '/limits', name: 'Limits', letter: 'l' },
  { to: '/jobs', name: 'Jobs', letter: 'j' },
  { to: '/flows', name: 'Flows', letter: 'f' },
  { to: '/queues', name: 'Queues', letter: 'q' },
  { to: '/schedules', name: 'Schedules', letter: 's' },
  { to: '/workers', name: 'Workers', letter: 'w' },
  { to: '/tasks', name: 'Tasks', letter: 't' },
  { to: '/bulk', name: 'Bulk changes', letter: 'b' },
  { to: '/audit', name: 'Audit', letter: 'a' },
] as const satisfies readonly { to: string; name: string; letter: string }[]

const SECOND_KEY_MS = 1500

function isTyping(target: EventTarget | null): boolean {
  return target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName))
}

/** `/` searches, `g` and a letter goes to a page, `?` shows this list. */
export function Keyboard(): ReactElement {
  const navigate = useNavigate()
  const [help, setHelp] = useState(false)
  useEffect(() => {
    let goneAt = 0
    const pressed = (event: KeyboardEvent): void => {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return
      if (document.querySelector('dialog[open]')) return
      const going = event.timeStamp - goneAt < SECOND_KEY_MS
      goneAt = 0
      const place = going ? PLACES.find(({ letter }) => letter === event.key) : undefined
      if (place) {
        event.preventDefault()
        void navigate({ to: place.to })
      } else if (event.key === 'g') goneAt = event.timeStamp
      else if (event.key === '?') setHelp(true)
      else if (event.key === '/') {
        event.preventDefault()
        const search = document.querySelector<HTMLInputElement>('input[type=search]')
        if (search) search.focus()
        else void navigate({ to: '/jobs' }).then(() => setTimeout(focusSearch, 50))
      }
    }
    addEventListener('keydown', pressed)
    return () => removeEventListener('keydown', pressed)
  }, [navigate])
  return (
    <Modal open={help} onClose={() => setHelp(false)} title="Keys">
      <dl className="grid grid-cols-[auto_1fr] gap-x-5 gap-y-2">
        <Line keys={['/']} what="Search" />
        {PLACES.map(({ letter, name }) => (
          <Line key={letter} keys={['g', letter]} what={name} />
        ))}
        <Line keys={['?']} what="This list" />
        <Line keys={['Esc']} what="Close what is open" />
      </dl>
    </Modal>
  )
}

function focusSearch(): void {
  document.querySelector<HTMLInputElement>('input[type=search]')?.focus()
}

function Line({ keys, what }: { readonly keys: readonly string[]; readonly what: string }): ReactElement {
  return (
    <>
      <dt className="flex gap-1">
        {keys.map((each) => (
          <kbd key={each} className="rounded border border-line-strong bg-sunken px-1.5 font-mono text-xs leading-5">
            {each}
          </kbd>
        ))}
      </dt>
      <dd>{what}</dd>
    </>
  )
}
