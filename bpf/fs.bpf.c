/* SPDX-License-Identifier: GPL-2.0-only */
/* File systems: sync and write paths, journal, writeback, page cache. */

#define FS_WANTED(set_) \
	u32 tid = current_tid(); \
	if (!wanted(tid) || thinned(set_)) \
	return 0

SEC("tp_btf/ext4_sync_file_enter")
int BPF_PROG(ext4_sync_file_enter, struct file *file, int datasync)
{
	FS_WANTED(PLUMB_THIN_FS);
	if (!file)
		return 0;
	EMIT(ext4_sync_file_enter, tid, {
		e->ino = file->f_inode->i_ino;
		e->dev = file->f_inode->i_sb->s_dev;
		e->datasync = datasync;
	});
	return 0;
}

SEC("tp_btf/ext4_sync_file_exit")
int BPF_PROG(ext4_sync_file_exit, struct inode *inode, int ret)
{
	FS_WANTED(PLUMB_THIN_FS);
	if (!inode)
		return 0;
	EMIT(ext4_sync_file_exit, tid, {
		e->ino = inode->i_ino;
		e->dev = inode->i_sb->s_dev;
		e->ret = ret;
	});
	return 0;
}

SEC("tp_btf/ext4_da_write_begin")
int BPF_PROG(ext4_da_write_begin, struct inode *inode, s64 pos, unsigned int len)
{
	FS_WANTED(PLUMB_THIN_FS);
	if (!inode)
		return 0;
	EMIT(ext4_da_write_begin, tid, {
		e->ino = inode->i_ino;
		e->dev = inode->i_sb->s_dev;
		e->len = len;
	});
	return 0;
}

SEC("tp_btf/ext4_da_write_end")
int BPF_PROG(ext4_da_write_end, struct inode *inode, s64 pos, unsigned int len, unsigned int copied)
{
	FS_WANTED(PLUMB_THIN_FS);
	if (!inode)
		return 0;
	EMIT(ext4_da_write_end, tid, {
		e->ino = inode->i_ino;
		e->dev = inode->i_sb->s_dev;
		e->len = copied;
	});
	return 0;
}

#define JBD2_EVENT(name_) \
	{ \
		FS_WANTED(PLUMB_THIN_FS); \
		if (!journal || !transaction) \
			return 0; \
		EMIT(name_, tid, { \
			e->dev = journal->j_fs_dev->bd_dev; \
			e->transaction = transaction->t_tid; \
			e->unused = 0; \
		}); \
		return 0; \
	}

SEC("tp_btf/jbd2_start_commit")
int BPF_PROG(jbd2_start_commit, struct journal_s *journal, struct transaction_s *transaction)
	JBD2_EVENT(jbd2_start_commit)

SEC("tp_btf/jbd2_commit_flushing")
int BPF_PROG(jbd2_commit_flushing, struct journal_s *journal, struct transaction_s *transaction)
	JBD2_EVENT(jbd2_commit_flushing)

SEC("tp_btf/jbd2_commit_logging")
int BPF_PROG(jbd2_commit_logging, struct journal_s *journal, struct transaction_s *transaction)
	JBD2_EVENT(jbd2_commit_logging)

SEC("tp_btf/jbd2_end_commit")
int BPF_PROG(jbd2_end_commit, struct journal_s *journal, struct transaction_s *transaction)
	JBD2_EVENT(jbd2_end_commit)

SEC("tp_btf/xfs_file_fsync")
int BPF_PROG(xfs_file_fsync, struct xfs_inode *inode)
{
	FS_WANTED(PLUMB_THIN_FS);
	EMIT(xfs_file_fsync, tid, {
		e->inode = (u64)inode;
		e->unused = 0;
	});
	return 0;
}

SEC("tp_btf/xfs_log_force")
int BPF_PROG(xfs_log_force, struct xfs_mount *mount, s64 lsn)
{
	FS_WANTED(PLUMB_THIN_FS);
	EMIT(xfs_log_force, tid, {
		e->mount = (u64)mount;
		e->lsn = lsn;
	});
	return 0;
}

SEC("tp_btf/xfs_file_buffered_write")
int BPF_PROG(xfs_file_buffered_write, struct kiocb *iocb, struct iov_iter *iter)
{
	FS_WANTED(PLUMB_THIN_FS);
	if (!iocb || !iter)
		return 0;
	EMIT(xfs_file_buffered_write, tid, {
		e->offset = iocb->ki_pos;
		e->len = iter->count;
	});
	return 0;
}

SEC("tp_btf/btrfs_sync_file")
int BPF_PROG(btrfs_sync_file, struct file *file, int datasync)
{
	FS_WANTED(PLUMB_THIN_FS);
	if (!file)
		return 0;
	EMIT(btrfs_sync_file, tid, {
		e->ino = file->f_inode->i_ino;
		e->dev = file->f_inode->i_sb->s_dev;
		e->datasync = datasync;
	});
	return 0;
}

SEC("tp_btf/btrfs_transaction_commit")
int BPF_PROG(btrfs_transaction_commit, struct btrfs_fs_info *fs)
{
	FS_WANTED(PLUMB_THIN_FS);
	EMIT(btrfs_transaction_commit, tid, {
		e->fs = (u64)fs;
		e->unused = 0;
	});
	return 0;
}

SEC("tp_btf/writeback_start")
int BPF_PROG(writeback_start, struct bdi_writeback *wb, struct wb_writeback_work *work)
{
	FS_WANTED(PLUMB_THIN_FS);
	EMIT(writeback_start, tid, {
		e->wb = (u64)wb;
		e->pages = work->nr_pages;
	});
	return 0;
}

SEC("tp_btf/writeback_written")
int BPF_PROG(writeback_written, struct bdi_writeback *wb, struct wb_writeback_work *work)
{
	FS_WANTED(PLUMB_THIN_FS);
	EMIT(writeback_written, tid, {
		e->wb = (u64)wb;
		e->pages = work->nr_pages;
	});
	return 0;
}

/* Only the first argument: the others moved between 6.12 and 6.18. */
SEC("tp_btf/balance_dirty_pages")
int BPF_PROG(balance_dirty_pages, struct bdi_writeback *wb)
{
	FS_WANTED(PLUMB_THIN_FS);
	EMIT(balance_dirty_pages, tid, {
		e->wb = (u64)wb;
		e->unused = 0;
	});
	return 0;
}

SEC("tp_btf/mm_filemap_add_to_page_cache")
int BPF_PROG(mm_filemap_add_to_page_cache, struct folio *folio)
{
	FS_WANTED(PLUMB_THIN_PAGECACHE);
	EMIT(mm_filemap_add_to_page_cache, tid, {
		e->ino = folio->mapping->host->i_ino;
		e->index = folio->index;
	});
	return 0;
}

SEC("tp_btf/mm_filemap_delete_from_page_cache")
int BPF_PROG(mm_filemap_delete_from_page_cache, struct folio *folio)
{
	FS_WANTED(PLUMB_THIN_PAGECACHE);
	EMIT(mm_filemap_delete_from_page_cache, tid, {
		e->ino = folio->mapping->host->i_ino;
		e->index = folio->index;
	});
	return 0;
}
