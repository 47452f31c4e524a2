import type { UnitRequest } from '../contract/limiter.ts'

/** Keeps lines of different calls apart, for a backend that decides several calls together. */
export class OwnLines {
  #lines = 0

  /** The requests of one call, with lines that no other call has. */
  of(requests: readonly UnitRequest[]): UnitRequest[] {
    const lines = new Map<number, number>()
    return requests.map((request) => {
      const line = lines.get(request.line) ?? this.#lines++
      lines.set(request.line, line)
      return { ...request, line }
    })
  }
}
