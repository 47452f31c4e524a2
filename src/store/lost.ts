/** The error of a run whose lease was lost, as JSON text. */
export const LOST: string = JSON.stringify({
  code: 'lease.lost',
  message: 'The worker died or stopped extending its lease.',
})
