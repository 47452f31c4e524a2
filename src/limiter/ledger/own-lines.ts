import type { UnitRequest } from '../contract/limiter.ts'

/**
 * Keeps lines of different calls apart, for a backend that decides several calls together.
 * @returns gives the requests of one call lines that no other call has
 */
export function ownLines(): (requests: readonly UnitRequest[]) => UnitRequest[] {
  let count = 0
  return (requests) => {
    const lines = new Map<number, number>()
    return requests.map((request) => {
      const line = lines.get(request.line) ?? count++
      lines.set(request.line, line)
      return { ...request, line }
    })
  }
}
