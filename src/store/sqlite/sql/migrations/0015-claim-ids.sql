-- Names the remote claim that started a job: if the claim's answer was lost, its jobs are given
-- back.
ALTER TABLE jobs ADD COLUMN claim TEXT;
